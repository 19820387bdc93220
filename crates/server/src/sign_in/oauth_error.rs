//! The errors of the authorization server, as the standards name them.
//!
//! *Source*: RFC 6749, sections 4.1.2.1 and 5.2; RFC 7591, section 3.2.2; RFC 8707, section 2;
//! RFC 9396, section 5.

use std::borrow::Cow;

use axum::body::Body;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;
use stile_store::state::StateError;

use crate::http::responses;

/// The code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OAuthErrorCode {
    /// A parameter is missing, malformed or repeated.
    InvalidRequest,
    /// The client is unknown.
    InvalidClient,
    /// The code or the refresh token is not valid.
    InvalidGrant,
    /// The server does not know the kind of grant.
    UnsupportedGrantType,
    /// The server does not know the kind of answer.
    UnsupportedResponseType,
    /// The scope is malformed.
    InvalidScope,
    /// The resource is not this server's.
    InvalidTarget,
    /// The authorization details are malformed, or cannot be granted.
    InvalidAuthorizationDetails,
    /// The owner said no.
    AccessDenied,
    /// A redirect address of a registration is refused.
    InvalidRedirectUri,
    /// A registration is refused.
    InvalidClientMetadata,
    /// The token of the caller of an endpoint is not the owner's.
    InvalidToken,
    /// The client sends too many requests.
    TooManyRequests,
    /// The database cannot answer now.
    Unavailable,
    /// The server failed.
    ServerError,
}

impl OAuthErrorCode {
    /// Returns the code as it is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::InvalidTarget => "invalid_target",
            Self::InvalidAuthorizationDetails => "invalid_authorization_details",
            Self::AccessDenied => "access_denied",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
            Self::InvalidToken => "invalid_token",
            Self::TooManyRequests | Self::Unavailable => "temporarily_unavailable",
            Self::ServerError => "server_error",
        }
    }

    /// Returns the status of a response with the error.
    pub fn status(self) -> StatusCode {
        match self {
            Self::InvalidClient | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// An error of the authorization server, with a sentence for the developer of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthError {
    /// The code, for programs.
    pub code: OAuthErrorCode,
    /// What is wrong, for people. ASCII without quotes and backslashes.
    pub description: Cow<'static, str>,
}

impl OAuthError {
    /// Makes an error of a code and a sentence.
    pub fn new(code: OAuthErrorCode, description: impl Into<Cow<'static, str>>) -> Self {
        Self { code, description: description.into() }
    }

    /// Logs that the state failed, and returns what the client learns of that.
    pub fn of_state(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        let error: &(dyn std::error::Error + 'static) = &error;
        match error.downcast_ref::<StateError>() {
            Some(error) => {
                error.log("the state could not be used");
                let code = match error.passes() {
                    true => OAuthErrorCode::Unavailable,
                    false => OAuthErrorCode::ServerError,
                };
                Self::new(code, error.consequence())
            }
            None => {
                tracing::error!(target: "stile::sign_in", %error, "the state could not be used");
                let why = "the server could not use its storage, and its log says why";
                Self::new(OAuthErrorCode::ServerError, why)
            }
        }
    }

    /// Returns the error as JSON that no cache may store.
    pub fn into_response(self) -> Response<Body> {
        let body = json!({
            "error": self.code.as_str(),
            "error_description": self.description,
        });
        let mut response = responses::json(self.code.status(), &body);
        if self.code == OAuthErrorCode::InvalidToken {
            let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if matches!(self.code, OAuthErrorCode::TooManyRequests | OAuthErrorCode::Unavailable) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
