def train(*a, **k):
    raise NotImplementedError
