"""Who took part in a training, told with shadow federations. Begin with `experiment.py`."""
