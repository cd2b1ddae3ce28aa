//! Orders to every daemon, and what each answers: who hears them, in which order the replies stand, and how
//! long.

use duebox_harness::RedisServer;
use duebox_queue::QueueError;
use futures_util::StreamExt as _;
use redis::cmd;

use crate::fixture::Fixture;

#[tokio::test]
async fn an_order_reaches_everyone_who_listens_to_this_queue_and_nobody_else() {
    let (fixture, other) = (Fixture::new().await, Fixture::new().await);
    assert_eq!(fixture.queue.publish_control("{\"id\":\"1\"}").await.unwrap(), 0, "nobody listens");
    let mut listeners = Vec::new();
    for heard in [&fixture, &fixture, &other] {
        listeners.push(fixture.listen_to(&heard.whole_key("orders")).await);
    }
    let order = "{\"id\":\"2\",\"text\":\"a line\\nand ümläuts\"}";
    assert_eq!(fixture.queue.publish_control(order).await.unwrap(), 2);
    assert_eq!(other.queue.publish_control("other").await.unwrap(), 1);
    for (listener, wanted) in listeners.iter_mut().zip([order, order, "other"]) {
        let heard: String = listener.on_message().next().await.unwrap().get_payload().unwrap();
        assert_eq!(heard, wanted);
    }
}

#[tokio::test]
async fn answers_stand_in_their_order_each_order_for_itself_and_for_a_minute() {
    let fixture = Fixture::new().await;
    let answers = async |id: &str| fixture.queue.control_replies(id).await.unwrap();
    assert_eq!(answers("7").await, Vec::<String>::new());
    for answer in ["first", "", "first"] {
        fixture.queue.reply_to_control("7", answer).await.unwrap();
    }
    fixture.queue.reply_to_control("8", "another").await.unwrap();
    assert_eq!(answers("7").await, ["first", "", "first"]);
    assert_eq!((answers("8").await, answers("9").await.len()), (vec!["another".to_owned()], 0));
    let lapses = |id: &str| -> i64 {
        fixture.redis(cmd("PTTL").arg(fixture.whole_key(&format!("answers:{id}"))))
    };
    for id in ["7", "8"] {
        assert!((1..=60_000).contains(&lapses(id)), "{}", lapses(id));
    }
}

#[tokio::test]
async fn no_more_answers_are_read_than_there_can_be_daemons() {
    let fixture = Fixture::new().await;
    let key = fixture.whole_key("answers:1");
    let many: Vec<String> = (0..10_005).map(|number| number.to_string()).collect();
    let _: u64 = fixture.redis(cmd("RPUSH").arg(&key).arg(&many));
    let read = fixture.queue.control_replies("1").await.unwrap();
    assert_eq!(read, many[..10_000]);
}

#[tokio::test]
async fn without_an_answer_of_redis_there_is_an_error_and_no_list_of_none() {
    let mut server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    fixture.queue.reply_to_control("1", "yes").await.unwrap();
    // Something else stands in its place.
    let _: String = fixture.redis(cmd("SET").arg(fixture.whole_key("answers:2")).arg("a text"));
    assert!(fixture.queue.control_replies("2").await.is_err());
    assert!(fixture.queue.reply_to_control("2", "yes").await.is_err());
    server.stop();
    let errors = [
        fixture.queue.publish_control("x").await.unwrap_err(),
        fixture.queue.reply_to_control("1", "yes").await.unwrap_err(),
        fixture.queue.control_replies("1").await.unwrap_err(),
    ];
    assert!(errors.iter().all(|error| matches!(error, QueueError::NoReply(_))), "{errors:?}");
}
