from hypothesis import settings

# How long one example takes depends on what else this machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
