-- purpose: Layers under the path that answers show: their own, or that of the layer around them at a depth.
-- grain: one row per process and layer
-- reads: layers
-- parameter: layer_depth INTEGER = NULL; layers deeper than this many others count in the one at that depth; NULL: each has its own row
-- column: layer_id BIGINT Layer.
-- column: process_id INTEGER Capture.
-- column: layer VARCHAR Path shown.
WITH RECURSIVE shown (layer_id, process_id, layer) AS (
    SELECT layer_id, process_id, path
    FROM layers
    WHERE parent_layer_id IS NULL OR getvariable('layer_depth') IS NULL OR depth <= getvariable('layer_depth')::INTEGER
    UNION ALL
    SELECT layers.layer_id, layers.process_id, shown.layer
    FROM layers
    INNER JOIN shown ON layers.parent_layer_id = shown.layer_id
    WHERE getvariable('layer_depth') IS NOT NULL AND layers.depth > getvariable('layer_depth')::INTEGER
)

SELECT layer_id, process_id, layer
FROM shown
