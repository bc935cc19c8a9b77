;;
-- nothing but a comment
;