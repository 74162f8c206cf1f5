#!/usr/bin/env python3
"""CloudWatch Logs (moto) on a port of its own, with the log events of a JSON file: {GROUP: {STREAM: [[MILLISECONDS, LINE]]}}.

It prints one line of JSON: its port, and the id and the secret of an access key that may read the log groups. From then on it
verifies the signature of each request, and that the key may send it.
"""

import json
import logging
import os
import sys
import threading
import urllib.request

# The requests that prepare the server are not verified.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "1000000"

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

REGION = "eu-central-1"
MAY_READ = {"Effect": "Allow", "Action": ["logs:FilterLogEvents", "logs:DescribeLogGroups"], "Resource": "*"}

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
thread = threading.Thread(target=server.serve_forever, daemon=True)
thread.start()
url = f"http://127.0.0.1:{server.server_port}"


def client(service):
    return boto3.client(service, REGION, endpoint_url=url, aws_access_key_id="x", aws_secret_access_key="x")


logs, iam = client("logs"), client("iam")
with open(sys.argv[1]) as file:
    groups = json.load(file)
for group, streams in groups.items():
    logs.create_log_group(logGroupName=group)
    for stream, events in streams.items():
        logs.create_log_stream(logGroupName=group, logStreamName=stream)
        events.sort(key=lambda event: event[0])
        for start in range(0, len(events), 1000):
            some = [{"timestamp": time, "message": line} for time, line in events[start : start + 1000]]
            logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=some)
iam.create_user(UserName="broker")
key = iam.create_access_key(UserName="broker")["AccessKey"]
policy = json.dumps({"Version": "2012-10-17", "Statement": [MAY_READ]})
iam.put_user_policy(UserName="broker", PolicyName="read", PolicyDocument=policy)
headers = {"Content-Type": "text/plain"}
urllib.request.urlopen(urllib.request.Request(url + "/moto-api/reset-auth", b"0", headers, method="POST"))
print(json.dumps({"port": server.server_port, "id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)
thread.join()
