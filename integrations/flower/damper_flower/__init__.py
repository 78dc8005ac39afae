"""damper's federated rounds over Flower: stock SuperLink and SuperNodes carry what the command `damper` makes and adds."""
