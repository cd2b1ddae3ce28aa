//! The routes of the API, one resource a file, each with the scope that a caller needs.

pub(super) mod command;
pub(super) mod dead;
pub(super) mod events;
pub(super) mod jobs;
pub(super) mod leases;
pub(super) mod live;
pub(super) mod push;
pub(super) mod samples;
pub(super) mod schedules;
pub(super) mod session;
pub(super) mod settle;
pub(super) mod topics;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{Takes, taking};
use super::openapi;
use super::state::ServerState;
use crate::auth::tokens::Scope;

/// Every route of the API, with the document that describes them.
pub(super) fn api() -> OpenApiRouter<ServerState> {
    let any = OpenApiRouter::new()
        .routes(routes!(jobs::get))
        .routes(routes!(topics::list))
        .routes(routes!(topics::show))
        .routes(routes!(samples::list))
        .routes(routes!(schedules::list));
    let push = OpenApiRouter::new()
        .routes(routes!(push::push))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::reschedule))
        .routes(routes!(jobs::run_now));
    let consume = OpenApiRouter::new()
        .routes(routes!(leases::pull))
        .routes(routes!(settle::ack))
        .routes(routes!(settle::nack))
        .routes(routes!(settle::drop_job))
        .routes(routes!(settle::release))
        .routes(routes!(settle::extend))
        .routes(routes!(events::stream));
    let admin = OpenApiRouter::new()
        .routes(routes!(topics::pause))
        .routes(routes!(topics::resume))
        .routes(routes!(topics::reload))
        .routes(routes!(topics::rollback))
        .routes(routes!(live::list))
        .routes(routes!(dead::list, dead::purge))
        .routes(routes!(dead::show, dead::purge_one))
        .routes(routes!(dead::requeue_one))
        .routes(routes!(dead::requeue))
        .routes(routes!(schedules::run));
    // A command says in its body which topic it is about, and is looked at there.
    let commands = OpenApiRouter::new().routes(routes!(command::command));
    // Who opens a session shows a token in it.
    let sessions =
        OpenApiRouter::new().routes(routes!(session::show, session::open, session::close));
    OpenApiRouter::with_openapi(openapi::document())
        .merge(taking(Takes::Any, any))
        .merge(taking(Takes::One(Scope::Push), push))
        .merge(taking(Takes::One(Scope::Consume), consume))
        .merge(taking(Takes::One(Scope::Admin), admin))
        .merge(commands)
        .merge(sessions)
}
