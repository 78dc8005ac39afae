"""damper's federated rounds over Flower: unmodified SuperLink and SuperNodes carry the data that the command `damper`
makes and adds."""
