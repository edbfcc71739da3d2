"""Charts: functions from small Arrow tables, with the columns of the metrics' views, to Altair charts.

Nothing here reads a dataset, a file or an option. `theme` has the colours, `save` turns a chart into HTML
that works offline, SVG or PNG.
"""
