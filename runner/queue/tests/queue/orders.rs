//! Orders to every daemon, and what each answers: who hears them, in which order the answers stand, and how
//! long.

use duebox_harness::RedisServer;
use duebox_queue::QueueError;
use futures_util::StreamExt as _;
use redis::cmd;

use crate::ground::Ground;

#[tokio::test]
async fn an_order_reaches_everyone_who_listens_to_this_queue_and_nobody_else() {
    let (ground, other) = (Ground::new().await, Ground::new().await);
    assert_eq!(ground.queue.order("{\"id\":\"1\"}").await.unwrap(), 0, "nobody listens");
    let mut listeners = Vec::new();
    for heard in [&ground, &ground, &other] {
        listeners.push(ground.listen_to(&heard.whole_key("orders")).await);
    }
    let order = "{\"id\":\"2\",\"text\":\"a line\\nand ümläuts\"}";
    assert_eq!(ground.queue.order(order).await.unwrap(), 2);
    assert_eq!(other.queue.order("other").await.unwrap(), 1);
    for (listener, wanted) in listeners.iter_mut().zip([order, order, "other"]) {
        let heard: String = listener.on_message().next().await.unwrap().get_payload().unwrap();
        assert_eq!(heard, wanted);
    }
}

#[tokio::test]
async fn answers_stand_in_their_order_each_order_for_itself_and_for_a_minute() {
    let ground = Ground::new().await;
    let answers = async |id: &str| ground.queue.answers(id).await.unwrap();
    assert_eq!(answers("7").await, Vec::<String>::new());
    for answer in ["first", "", "first"] {
        ground.queue.answer("7", answer).await.unwrap();
    }
    ground.queue.answer("8", "another").await.unwrap();
    assert_eq!(answers("7").await, ["first", "", "first"]);
    assert_eq!((answers("8").await, answers("9").await.len()), (vec!["another".to_owned()], 0));
    let lapses = |id: &str| -> i64 {
        ground.redis(cmd("PTTL").arg(ground.whole_key(&format!("answers:{id}"))))
    };
    for id in ["7", "8"] {
        assert!((1..=60_000).contains(&lapses(id)), "{}", lapses(id));
    }
}

#[tokio::test]
async fn no_more_answers_are_read_than_there_can_be_daemons() {
    let ground = Ground::new().await;
    let key = ground.whole_key("answers:1");
    let many: Vec<String> = (0..10_005).map(|number| number.to_string()).collect();
    let _: u64 = ground.redis(cmd("RPUSH").arg(&key).arg(&many));
    let read = ground.queue.answers("1").await.unwrap();
    assert_eq!(read, many[..10_000]);
}

#[tokio::test]
async fn without_an_answer_of_redis_there_is_an_error_and_no_list_of_none() {
    let mut server = RedisServer::start();
    let ground = Ground::on(&server).await;
    ground.queue.answer("1", "yes").await.unwrap();
    // Something else stands in its place.
    let _: String = ground.redis(cmd("SET").arg(ground.whole_key("answers:2")).arg("a text"));
    assert!(ground.queue.answers("2").await.is_err());
    assert!(ground.queue.answer("2", "yes").await.is_err());
    server.stop();
    let errors = [
        ground.queue.order("x").await.unwrap_err(),
        ground.queue.answer("1", "yes").await.unwrap_err(),
        ground.queue.answers("1").await.unwrap_err(),
    ];
    assert!(errors.iter().all(|error| matches!(error, QueueError::NoAnswer(_))), "{errors:?}");
}
