SELECT a
FROM t
WHERE b ==== 'ü'