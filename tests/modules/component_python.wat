;; A component of Python.
(component (core module (@producers (processed-by "componentize-py" "0.17"))))
