//! The limits of a guest, exactly.

use duebox_job::{FailureClass, Outcome};
use duebox_sandbox::{Grants, Limits};

use crate::support::{TestRun, job, load_with, probe, run};

async fn with_log_budget(budget: usize, body: &str) -> TestRun {
    let limits = Limits { log: budget, ..Limits::default() };
    run(&load_with(&probe(body), limits, Grants::default()), job()).await
}

#[tokio::test]
async fn a_line_fits_the_log_budget_or_is_dropped_as_a_whole() {
    let body = "(call $log (i32.const 2) (i32.const 256) (i32.const 6))
                (call $log (i32.const 2) (i32.const 288) (i32.const 7))
                (call $log (i32.const 2) (i32.const 256) (i32.const 4))
                (i32.const 0)";
    for (budget, lines, dropped) in [
        (17, vec!["region", "nothing", "regi"], 0),
        (16, vec!["region", "nothing"], 1),
        (12, vec!["region", "regi"], 1),
        (5, vec!["regi"], 2),
        (0, vec![], 3),
    ] {
        let ran = with_log_budget(budget, body).await;
        assert_eq!(ran.texts(), lines, "{budget}");
        assert_eq!(ran.report.log_lines_dropped, dropped, "{budget}");
    }
}

#[tokio::test]
async fn an_empty_text_costs_one_byte_of_the_log_budget() {
    let ran = with_log_budget(
        3,
        "(local $count i32)
         (loop $again
           (call $log (i32.const 2) (i32.const 0) (i32.const 0))
           (local.set $count (i32.add (local.get $count) (i32.const 1)))
           (br_if $again (i32.lt_u (local.get $count) (i32.const 10))))
         (i32.const 0)",
    )
    .await;
    assert_eq!(ran.texts(), ["", "", ""]);
    assert_eq!(ran.report.log_lines_dropped, 7);
}

#[tokio::test]
async fn line_breaks_count_as_lines() {
    let body = "(memory.fill (i32.const 1024) (i32.const 10) (i32.const 1600))
                (call $log (i32.const 2) (i32.const 1024) (i32.const 1600))
                (i32.const 0)";
    let ran = with_log_budget(1600, body).await;
    // The last break ends a line. The limit is 64 lines plus 100 for 1,600 bytes.
    assert_eq!((ran.texts().len(), ran.report.log_lines_dropped), (164, 1600 - 164));
}

#[tokio::test]
async fn memory_grows_up_to_its_limit() {
    // Returns the number of pages at which growing by one fails.
    let pages = r#"(module
      (memory (export "memory") 1)
      (func (export "handle") (param i32) (result i32)
        (loop $again
          (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
        (memory.size)))"#;
    for limit in [4 << 16, (4 << 16) + 65_535, 64 << 20, 200 << 20] {
        let limits = Limits { memory: limit, ..Limits::default() };
        let ran = run(&load_with(pages, limits, Grants::default()), job()).await;
        assert_eq!(ran.answer() as usize, limit >> 16, "{limit}");
        assert_eq!(ran.report.memory_peak, limit >> 16 << 16);
    }
}

#[tokio::test]
async fn all_tables_share_one_limit() {
    let elements = r#"(module
      (table $one 1 funcref)
      (table $two 1 funcref)
      (func (export "handle") (param i32) (result i32)
        (loop $again
          (drop (table.grow $two (ref.null func) (i32.const 1)))
          (br_if $again
            (i32.ne (table.grow $one (ref.null func) (i32.const 1)) (i32.const -1))))
        (i32.add (table.size $one) (table.size $two))))"#;
    let limits = Limits { tables: 11, ..Limits::default() };
    assert_eq!(run(&load_with(elements, limits, Grants::default()), job()).await.answer(), 11);
}

#[tokio::test]
async fn a_refused_growth_alone_is_not_a_failure() {
    let limits = Limits { memory: 1 << 16, ..Limits::default() };
    let copes = r#"(module
      (memory (export "memory") 1)
      (func (export "handle") (param i32) (result i32)
        (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))"#;
    let ran = run(&load_with(copes, limits.clone(), Grants::default()), job()).await;
    assert_eq!(ran.report.outcome, Outcome::Acked);
    let nacks = copes.replace("i32.ne", "i32.eq");
    let ran = run(&load_with(&nacks, limits, Grants::default()), job()).await;
    assert_eq!(ran.failure().class, FailureClass::Nack, "a verdict stays valid");
}
