// node --import ./google_root.mjs <server>: leads the calendar client of `googleapis` to the address in GOOGLE_ROOT.
import { createRequire } from "node:module";

const { google } = createRequire(process.argv[1])("googleapis");
const calendar = google.calendar.bind(google);
google.calendar = (options) => calendar({ ...options, rootUrl: process.env.GOOGLE_ROOT });
