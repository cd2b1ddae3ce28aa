//! The routes of the API, one resource per file, each with the scope it requires.

pub(super) mod command;
pub(super) mod dead;
pub(super) mod events;
pub(super) mod history;
pub(super) mod jobs;
pub(super) mod leases;
pub(super) mod live;
pub(super) mod push;
mod recent;
pub(super) mod relatives;
pub(super) mod runners;
pub(super) mod schedules;
pub(super) mod selected;
pub(super) mod session;
pub(super) mod settle;
pub(super) mod topic_control;
pub(super) mod topics;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{RequiredScope, requiring};
use super::openapi;
use super::state::ServerState;
use crate::auth::tokens::Scope;

/// All routes of the API with their OpenAPI document.
pub(super) fn api() -> OpenApiRouter<ServerState> {
    let any = OpenApiRouter::new()
        .routes(routes!(topics::list))
        .routes(routes!(topics::show))
        .routes(routes!(history::show))
        .routes(routes!(schedules::list));
    let push = OpenApiRouter::new()
        .routes(routes!(push::push))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::reschedule))
        .routes(routes!(jobs::run_now))
        .routes(routes!(selected::cancel));
    let read = OpenApiRouter::new()
        .routes(routes!(jobs::get))
        .routes(routes!(live::list))
        .routes(routes!(dead::list))
        .routes(routes!(dead::show));
    let consume = OpenApiRouter::new()
        .routes(routes!(leases::pull))
        .routes(routes!(settle::ack))
        .routes(routes!(settle::nack))
        .routes(routes!(settle::drop_job))
        .routes(routes!(settle::release))
        .routes(routes!(settle::extend))
        .routes(routes!(events::stream));
    let admin = OpenApiRouter::new()
        .routes(routes!(topic_control::pause))
        .routes(routes!(topic_control::resume))
        .routes(routes!(topic_control::reload))
        .routes(routes!(topic_control::rollback))
        .routes(routes!(dead::purge))
        .routes(routes!(dead::purge_one))
        .routes(routes!(dead::requeue_one))
        .routes(routes!(dead::requeue))
        .routes(routes!(selected::requeue))
        .routes(routes!(selected::purge))
        .routes(routes!(schedules::run));
    let observe =
        OpenApiRouter::new().routes(routes!(runners::list)).routes(routes!(runners::redis));
    // A command names its topic in its body, so it checks the scope and the topic itself.
    let commands = OpenApiRouter::new().routes(routes!(command::command));
    // A request that opens a session has its token in the body.
    let sessions =
        OpenApiRouter::new().routes(routes!(session::show, session::open, session::close));
    OpenApiRouter::with_openapi(openapi::document())
        .merge(requiring(RequiredScope::Any, any))
        .merge(requiring(RequiredScope::One(Scope::Push), push))
        .merge(requiring(RequiredScope::One(Scope::Read), read))
        .merge(requiring(RequiredScope::One(Scope::Consume), consume))
        .merge(requiring(RequiredScope::One(Scope::Admin), admin))
        .merge(requiring(RequiredScope::One(Scope::Metrics), observe))
        .merge(requiring(RequiredScope::Any, commands))
        .merge(sessions)
}
