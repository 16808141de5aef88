def read_fcstd(path, options):
    raise NotImplementedError
