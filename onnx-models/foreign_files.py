"""Folder of the files of foreign.py, and the list of parameters in it."""

import json
import pathlib

HERE = pathlib.Path(__file__).parent / "exports" / "foreign"


def record(name, parameters):
    """Adds the parameters of a network, as (name, shape), to parameters.json."""
    path = HERE / "parameters.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known[name] = parameters
    rows = {key: ",\n".join("  " + json.dumps(one) for one in known[key]) for key in sorted(known)}
    path.write_text("{\n" + ",\n".join(f" {json.dumps(key)}: [\n{row}\n ]" for key, row in rows.items()) + "\n}\n")
