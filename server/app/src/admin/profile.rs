//! `/debug/profile`: a CPU profile of the server, if `admin.profile` is set. The access check precedes it.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::Shared;
use super::debug::{Params, problem, refuse};
use crate::profiler::{self, Failure};

/// Shortest and longest profile, in seconds.
pub const SECONDS: std::ops::RangeInclusive<u64> = 1..=60;
/// Length of a profile without a parameter, in seconds.
pub const DEFAULT: u64 = 10;

/// Parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileQuery {
    seconds: Option<String>,
}

/// Takes a profile.
pub async fn cpu(method: Method, State(shared): State<Shared>, params: Params<ProfileQuery>) -> Response {
    if !shared.profiles {
        let why = "profiles are off; set admin.profile in the configuration and restart the server";
        return problem(StatusCode::FORBIDDEN, None, why);
    }
    let seconds = match params {
        Ok(Query(ProfileQuery { seconds })) => seconds.map_or(Some(DEFAULT), |text| text.parse().ok()),
        Err(e) => return refuse(&e.body_text()),
    };
    let Some(seconds) = seconds.filter(|seconds| SECONDS.contains(seconds)) else {
        return refuse(&format!("`seconds` must be a number from {} to {}", SECONDS.start(), SECONDS.end()));
    };
    if method == Method::HEAD {
        return StatusCode::OK.into_response();
    }
    tracing::info!(seconds, "CPU profile requested");
    let taken = tokio::select! {
        taken = profiler::cpu(Duration::from_secs(seconds)) => taken,
        () = shared.stop.cancelled() => Err(Failure::Failed("the server stops".to_owned())),
    };
    match taken {
        Ok(profile) => {
            let kind = (header::CONTENT_TYPE, "application/octet-stream");
            let name = (header::CONTENT_DISPOSITION, "attachment; filename=\"profile.pb.gz\"");
            ([kind, name], profile).into_response()
        }
        Err(Failure::Running) => {
            problem(StatusCode::CONFLICT, None, "another profile is being taken; retry when it has ended")
        }
        Err(Failure::Failed(why)) => problem(StatusCode::SERVICE_UNAVAILABLE, None, &why),
    }
}
