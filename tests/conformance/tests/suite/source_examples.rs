//! `examples/typescript` and `examples/python` with the test shop: the handlers do what `order-close` and
//! `payment-poll` do.

use std::path::PathBuf;

use duebox_conformance::{Attempt, Module, Run, repository};
use duebox_shop::Shop;

use crate::shop::{self, TOKEN};

/// The language of an example.
#[derive(Debug, Clone, Copy)]
enum Example {
    TypeScript,
    Python,
}

const EXAMPLES: [Example; 2] = [Example::TypeScript, Example::Python];

impl Example {
    fn file(self, handler: &str) -> PathBuf {
        repository().join("examples").join(match self {
            Self::TypeScript => format!("typescript/handlers/{handler}.ts"),
            Self::Python => format!("python/handlers/{}.py", handler.replace('-', "_")),
        })
    }

    fn order_close(self, shop: &Shop) -> Module {
        module(self, "order-close", &shop.origin(), TOKEN, &[])
    }

    fn payment_poll(self, shop: &Shop) -> Module {
        module(self, "payment-poll", &shop.origin(), TOKEN, &[])
    }
}

/// A handler of an example with the origin and the token of a shop.
fn module(
    of: Example,
    handler: &str,
    origin: &str,
    token: &str,
    config: &[(&str, &str)],
) -> Module {
    let path = of.file(handler);
    let values = [("shop", origin), ("token", token)];
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Module::from_file(&path, values.iter().chain(config).map(owned).collect())
}

fn order(id: &str) -> Attempt {
    Attempt::new(format!(r#"{{"order":"{id}","shop":"bramble","amount":"149.90"}}"#))
}

fn payment(id: &str) -> Attempt {
    Attempt::new(format!(r#"{{"payment":{{"id":"{id}","order":42}}}}"#))
}

/// The orders that were closed, and whether each request had an effect.
fn ledger(shop: &Shop) -> Vec<(String, bool)> {
    shop.books().ledger().iter().map(|entry| (entry.of.clone(), entry.effect)).collect()
}

#[test]
fn an_unpaid_order_is_closed_and_a_paid_one_is_not() {
    EXAMPLES.into_iter().for_each(|of| {
        let shop = shop::open();
        let module = of.order_close(&shop);
        for (state, closed) in [("unpaid", true), ("expired", true), ("paid", false)] {
            shop.books().place_order(state, &[state]);
            let run = module.run(&order(state));
            assert_eq!(run.verdict(), "ack", "{state}: {run:?}");
            let line = run.verdict_line();
            assert!(
                line.contains(&format!("order={state} shop=\"bramble\" closed={closed}")),
                "{line}"
            );
        }
        shop.books().place_order("2026/11#ü", &["unpaid"]);
        assert_eq!(module.run(&order("2026/11#ü")).verdict(), "ack");
        let closed = ["unpaid", "expired", "2026/11#ü"].map(|order| (order.to_owned(), true));
        assert_eq!(ledger(&shop), closed);
    });
}

#[test]
fn an_order_that_was_paid_or_closed_meanwhile_is_not_closed_again() {
    EXAMPLES.into_iter().for_each(|of| {
        let shop = shop::open();
        let module = of.order_close(&shop);
        shop.books().place_order("A-1", &["unpaid"]);
        shop::inject_fault(&shop, "/orders/A-1/close", r#"{"answer":{"status":409}}"#);
        let run = module.run(&order("A-1"));
        assert!(run.verdict_line().contains("closed=false paid=true"), "{run:?}");
        shop::inject_fault(&shop, "/orders/A-1/close", r#""lost""#);
        assert_eq!(module.run(&order("A-1")).verdict(), "nack");
        assert_eq!(module.run(&order("A-1").number(2)).verdict(), "ack");
        assert_eq!(ledger(&shop), [("A-1".to_owned(), true), ("A-1".to_owned(), false)]);
    });
}

#[test]
fn a_payment_in_processing_is_asked_for_again_later() {
    EXAMPLES.into_iter().for_each(|of| {
        let shop = shop::open();
        shop.books().place_order("A-1", &["processing"]);
        let run = of.order_close(&shop).run(&order("A-1"));
        assert_eq!((run.verdict(), run.retry_after_ms()), ("nack", Some(120_000)));
        assert_eq!(run.reason(), "the payment of order A-1 is still processing");
        let config = [("processing_wait_s", "0.5")];
        let soon = module(of, "order-close", &shop.origin(), TOKEN, &config).run(&order("A-1"));
        assert_eq!(soon.retry_after_ms(), Some(500));
        let config = [("processing_wait_s", "soon")];
        let wrong = module(of, "order-close", &shop.origin(), TOKEN, &config).run(&order("A-1"));
        assert_eq!((wrong.verdict(), wrong.retry_after_ms()), ("nack", None));
        assert!(wrong.reason().contains("processing_wait_s"), "{wrong:?}");
    });
}

#[test]
fn a_payment_is_followed_until_the_provider_has_decided() {
    EXAMPLES.into_iter().for_each(|of| {
        let shop = shop::open();
        let module = of.payment_poll(&shop);
        shop.books().start_payment("pay_81", &["open", "pending", "paid"]);
        let runs = [1, 8, 3].map(|attempt| module.run(&payment("pay_81").number(attempt)));
        assert_eq!(runs.each_ref().map(Run::verdict), ["nack", "nack", "ack"]);
        let [first, last, paid] = &runs;
        assert_eq!(first.retry_after_ms(), None, "the topic's schedule decides");
        assert_eq!(first.reason(), "the payment pay_81 is still open at attempt 1 of 8");
        assert_eq!(
            last.lines.first().map(String::as_str),
            Some("warn giving up on the payment pay_81: still open at attempt 8 of 8")
        );
        assert_eq!(paid.verdict_line(), "info verdict=ack payment=pay_81 state=paid");
        for state in ["failed", "cancelled"] {
            shop.books().start_payment("pay_82", &[state]);
            let run = module.run(&payment("pay_82"));
            assert_eq!(
                (run.verdict(), run.reason()),
                ("drop", &*format!("the payment pay_82 is {state}"))
            );
        }
    });
}

#[test]
fn every_other_response_has_a_verdict() {
    EXAMPLES.into_iter().for_each(|of| {
        let shop = shop::open();
        shop.books().place_order("A-1", &[]);
        shop.books().start_payment("p", &["paid"]);
        let (orders, payments) = (of.order_close(&shop), of.payment_poll(&shop));
        for (status, verdict) in [
            (404, "drop"),
            (400, "drop"),
            (401, "nack"),
            (408, "nack"),
            (500, "nack"),
            (302, "nack"),
            (200, "nack"),
        ] {
            let fault = format!(r#"{{"answer":{{"status":{status}}}}}"#);
            for (on, module, job) in
                [("/orders/A-1", &orders, order("A-1")), ("/payments/p", &payments, payment("p"))]
            {
                shop::inject_fault(&shop, on, &fault);
                let run = module.run(&job);
                assert_eq!(
                    (run.verdict(), run.retry_after_ms()),
                    (verdict, None),
                    "{status}: {run:?}"
                );
                assert!(run.verdict_line().contains(&format!("verdict={verdict} ")), "{run:?}");
            }
        }
        shop::inject_fault(&shop, "/payments/p", r#"{"answer":{"status":503,"retry_after":"9"}}"#);
        assert_eq!(payments.run(&payment("p")).retry_after_ms(), Some(9_000));
        assert_eq!(orders.run(&order("B-2")).reason(), "the shop has no order B-2 (404)");
        assert_eq!(ledger(&shop), []);
    });
}

#[test]
fn an_unreachable_hanging_or_unconfigured_shop_is_a_nack_with_a_reason() {
    EXAMPLES.into_iter().for_each(|of| {
        let shop = shop::open();
        shop.books().place_order("A-1", &[]);
        let away =
            module(of, "order-close", &shop::unreachable_origin(), "", &[]).run(&order("A-1"));
        shop::inject_fault(&shop, "/orders/A-1", r#""hang""#);
        let hung = of.order_close(&shop).run(&order("A-1").ttr_ms(1_000));
        let path = of.file("order-close");
        let unnamed = Module::from_file(&path, [].into()).run(&order("A-1"));
        let locked = module(of, "order-close", &shop.origin(), "wrong", &[]).run(&order("A-1"));
        for (run, why) in [
            (away, "the shop: "),
            (hung, "the shop: "),
            (unnamed, r#"the configuration value "shop" is missing"#),
            (locked, "the shop refused the token (401)"),
        ] {
            assert_eq!(run.verdict(), "nack", "{run:?}");
            assert!(run.reason().starts_with(why), "{run:?}");
            assert!(run.verdict_line().starts_with("info verdict=nack reason="), "{run:?}");
        }
    });
}

#[test]
fn malformed_events_are_dropped_with_the_reason() {
    EXAMPLES.into_iter().for_each(|of| {
        let shop = shop::open();
        let (orders, payments) = (of.order_close(&shop), of.payment_poll(&shop));
        for payload in
            ["", "order 42", "[]", r#"{"order":-1}"#, r#"{"order":".."}"#, r#"{"order":"a\nb"}"#]
        {
            for module in [&orders, &payments] {
                let run = module.run(&Attempt::new(payload));
                assert_eq!(run.verdict(), "drop", "{payload}: {run:?}");
                assert!(run.reason().starts_with("malformed event: "), "{payload}: {run:?}");
                assert!(run.verdict_line().starts_with("info verdict=drop reason="), "{run:?}");
            }
        }
        let reason = orders.run(&Attempt::new([0xff])).reason().to_owned();
        assert!(reason.starts_with("the payload is not valid text: "), "{reason}");
    });
}
