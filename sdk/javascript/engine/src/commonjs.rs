//! CommonJS modules: files of packages that say `require` and `module.exports`, and JSON files.
//!
//! A module that ES modules import is evaluated when it is loaded, because only then its exports have names. What
//! else it requires is evaluated where it is required.

use std::rc::Rc;

use rquickjs::function::Function;
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Exception, Module, Object, Persistent, Result, Value, qjs};

use crate::program::{Files, Kind};

/// What stands before and after the source of a module. It does not begin a line of its own.
const HEAD: &str = "(function(exports,require,module,__filename,__dirname){";
const TAIL: &str = "\n})";

pub(crate) struct CommonJs {
    files: Rc<Files>,
    /// `commonjs.js`.
    facade: Option<Persistent<Function<'static>>>,
}

impl CommonJs {
    pub(crate) fn new(files: Rc<Files>) -> Self {
        Self { files, facade: None }
    }

    /// The ES module that exports what a CommonJS module exports: as its default and, if wanted, by name.
    pub(crate) fn import<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        has_names: bool,
    ) -> Result<Module<'js, Declared>> {
        let facade = match &self.facade {
            Some(facade) => facade.clone().restore(ctx)?,
            None => {
                let facade = start(ctx, &self.files)?;
                self.facade = Some(Persistent::save(ctx, facade.clone()));
                facade
            }
        };
        let made: Object<'js> = facade.call((name, has_names))?;
        let source: String = made.get("source")?;
        let module = Module::declare(ctx.clone(), name, source)?;
        module.meta()?.set("exports", made.get::<_, Value<'js>>("exports")?)?;
        Ok(module)
    }
}

/// Evaluates `commonjs.js`.
fn start<'js>(ctx: &Ctx<'js>, files: &Rc<Files>) -> Result<Function<'js>> {
    let found = Rc::clone(files);
    let find = Function::new(ctx.clone(), move |from: String, specifier: String| {
        found.links.get(&(from, specifier)).cloned()
    })?;
    let compiled = Rc::clone(files);
    let compile = Function::new(ctx.clone(), move |ctx: Ctx<'js>, name: String| {
        compile(&ctx, &compiled, &name)
    })?;
    let source = include_str!("commonjs.js");
    let start = evaluate(ctx, "duebox:commonjs", source.to_owned())?;
    let start = Function::from_value(start)?;
    start.call((find, compile))
}

/// The function of a module, which takes what the module finds as `exports`, `require`, `module` …
fn compile<'js>(ctx: &Ctx<'js>, files: &Files, name: &str) -> Result<Value<'js>> {
    let source = match files.sources.borrow_mut().get_mut(name) {
        Some((Kind::CommonJs | Kind::Json, source)) => Some(std::mem::take(source)),
        _ => None,
    };
    let Some(source) = source else {
        let text = format!("{name} is an ES module, which require cannot load; import it");
        return Err(Exception::throw_type(ctx, &text));
    };
    evaluate(ctx, name, [HEAD, &source, TAIL].concat())
}

/// Evaluates a script, which is not in strict mode. `Ctx::eval` gives all of them the same name.
fn evaluate<'js>(ctx: &Ctx<'js>, name: &str, source: String) -> Result<Value<'js>> {
    let (length, mut source) = (source.len(), source.into_bytes());
    source.push(0);
    let mut name = name.replace('\0', "").into_bytes();
    name.push(0);
    let flags = qjs::JS_EVAL_TYPE_GLOBAL as i32;
    // SAFETY: both texts end with a zero, and the value belongs to this context.
    let value = unsafe {
        let raw = ctx.as_raw().as_ptr();
        let value =
            qjs::JS_Eval(raw, source.as_ptr().cast(), length as _, name.as_ptr().cast(), flags);
        if qjs::JS_IsException(value) {
            return Err(Error::Exception);
        }
        Value::from_raw(ctx.clone(), value)
    };
    Ok(value)
}
