#!/usr/bin/env python3
"""Prints the calls of the tasks of AgentDojo's suite `workspace`, as its authors state them for each task: one JSON object a
line, {"kind": "user" or "injection", "task": NAME, "calls": [[FUNCTION, {ARGUMENT: VALUE or null}]]}. A value that the suite
computes when it runs is null. The sources are parsed and not executed.

    agentdojo.py SITE_PACKAGES
"""

import ast
import json
import pathlib
import sys


def value(node, attributes):
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return attributes.get(node.attr)
    if isinstance(node, ast.List):
        return [value(item, attributes) for item in node.elts]
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def constants(task):
    found = {}
    for statement in task.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = value(statement.value, found)
    return found


def call(node, attributes):
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    arguments = keywords.get("args")
    pairs = zip(arguments.keys, arguments.values) if isinstance(arguments, ast.Dict) else []
    return [value(keywords["function"], attributes), {value(name, attributes): value(of, attributes) for name, of in pairs}]


def tasks(path):
    for task in ast.parse(path.read_text()).body:
        methods = [] if not isinstance(task, ast.ClassDef) else task.body
        truth = [one for one in methods if isinstance(one, ast.FunctionDef) and one.name == "ground_truth"]
        for method in truth:
            nodes = [node for node in ast.walk(method)
                     if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "FunctionCall"]
            nodes.sort(key=lambda node: (node.lineno, node.col_offset))
            attributes = constants(task)
            yield task.name, [call(node, attributes) for node in nodes]


suite = pathlib.Path(sys.argv[1]) / "agentdojo/default_suites/v1/workspace"
for kind in ["user", "injection"]:
    for name, calls in tasks(suite / f"{kind}_tasks.py"):
        print(json.dumps({"kind": kind, "task": name, "calls": calls}))
