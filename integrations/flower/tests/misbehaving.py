"""A ClientApp of the test whose devices misbehave, each in a round of `behaviour`, `WHAT:ROUND` in --node-config.

`leaves`: no update. `lies`: says that it has the plan, and sends the update of another. `replays`: sends the update of the round before again.
`doubles`: sends its update twice. Rounds are counted from 0.
"""

from pathlib import Path
from types import SimpleNamespace

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from damper_flower.client_app import make_update, plan_digest, reply

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round."""
    what, _, when = str(context.node_config.get("behaviour", "none:-1")).partition(":")
    round_ = int(message.content["config"]["round"])
    if round_ != int(when):
        what = "none"
    if what == "leaves":
        raise RuntimeError("gone")
    if what == "lies":
        # Its own plan, ledger and key; the server is told that it has the server's.
        node = dict(context.node_config)
        node["folder"] = f"{node['folder']}-other"
        node["federation"] = node["other"]
        asked = {**message.content["config"], "federation": plan_digest(Path(str(node["other"])))}
        content = {"arrays": message.content["arrays"], "config": asked}
        update, said = make_update(SimpleNamespace(node_config=node), SimpleNamespace(content=content))
        return reply(message, said, update)
    update, said = make_update(context, message)
    if what == "replays":
        update = (Path(str(context.node_config["folder"])) / f"{round_ - 1}.upd").read_bytes()
    return reply(message, said, update, *([update] if what == "doubles" else []))
