// CommonJS: `find` finds the module that a text of require means, `compile` makes a function of a module. Returns the
// function that makes an ES module of a CommonJS module.
(find, compile) => {
  const loaded = new Map();

  const load = (name) => {
    const known = loaded.get(name);
    if (known !== undefined) return known.exports;
    const module = { exports: {}, id: name, filename: name, loaded: false };
    const require = (specifier) => {
      const target = find(name, String(specifier));
      if (target !== undefined) return load(target);
      const error = new Error(`Cannot find module '${specifier}' in a Duebox handler, which has files of its project and no modules of Node`);
      error.code = "MODULE_NOT_FOUND";
      throw error;
    };
    const run = compile(name);
    loaded.set(name, module);
    run.call(module.exports, module.exports, require, module, name, name.slice(0, Math.max(0, name.lastIndexOf("/"))));
    module.loaded = true;
    return module.exports;
  };

  return (name, hasNames) => {
    const exports = load(name);
    const names = hasNames && Object(exports) === exports ? Object.keys(exports) : [];
    const isName = (key) => /^[A-Za-z_$][\w$]*$/.test(key) && key !== "default" && key !== "__esModule";
    const lines = names.filter(isName).map((key, at) => `const v${at}=e.${key};export{v${at} as ${key}};`);
    // What Babel and TypeScript compiled to CommonJS has its default export under that name.
    const isCompiled = hasNames && Object(exports) === exports && exports.__esModule && "default" in exports;
    const source = `const e=import.meta.exports;${lines.join("")}const d=${isCompiled ? "e.default" : "e"};export{d as default};`;
    return { exports, source };
  };
}
