// A CommonJS module that @grafana/ui imports by its default export, which esbuild gives to ES modules only by name.

export { Scrollbars as default } from "../node_modules/react-custom-scrollbars-2/lib/index.js";
