// `node --import @duebox/sdk/register --test`: handlers import "duebox" in Node, and files without their extension.

import { register } from "node:module";

register("./hooks.mjs", import.meta.url);
