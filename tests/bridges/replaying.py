"""A bridge that says what Ash's own bridge for Google has said, to whoever asks what that was asked.

`replaying.py TRANSCRIPTS`. A request must have the very members of a recorded one; of several that fit the first one that was
not had yet is answered, in the order in which they were recorded. What belongs to the moment (the request's id, when a flow is
over) is of the moment.
"""
import datetime
import json
import os
import sys

HAD = "/state/had" if os.path.isdir("/state") else os.path.join(os.environ["HOME"], "had")


def members(value):
    return {name: members(value[name]) for name in sorted(value)} if isinstance(value, dict) else None


def fits(recorded, asked):
    if recorded.get("method") != asked["method"] or recorded.get("namespace") != asked["namespace"]:
        return False
    params, given = recorded.get("params"), asked["params"]
    same = all(params.get(name) == given.get(name) for name in ("capability_id", "operation", "input_data"))
    return recorded.get("version") == 1 and same


request = json.loads(sys.stdin.readline())
had = open(HAD).read().split() if os.path.exists(HAD) else []
for number, line in enumerate(open(sys.argv[1])):
    pair = json.loads(line)
    recorded = pair["request"]
    # Requests that only ask may be repeated.
    if not isinstance(recorded, dict) or (str(number) in had and request["method"] == "auth_complete"):
        continue
    if not isinstance(recorded.get("params"), dict) or not fits(recorded, request):
        continue
    if members(recorded) != members(request):
        sys.exit(f"it was asked with other members: {members(request)} and not {members(recorded)}")
    with open(HAD, "a") as file:
        file.write(f"{number}\n")
    response = {**pair["response"], "id": request["id"]}
    if "expires_at" in response.get("result", {}):
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=30)
        response["result"]["expires_at"] = later.strftime("%Y-%m-%dT%H:%M:%SZ")
    print(json.dumps(response))
    sys.exit()
sys.exit(f"no approval request was sent that: {request}")
