//! What the requests of every reading operation have in common, and how one is declared.

use super::parameters::{Parameter, Parameters};
use crate::records::problem::Problem;
use crate::records::record_id::encode_key;

/// The variable segments of a path, decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathNames<'r> {
    /// The stream; empty if the path has none.
    pub stream: &'r str,
    /// The record key; empty if the path has none.
    pub key: &'r str,
}

/// The requests to one reading operation.
pub trait ReadOperation: Sized {
    /// The operation's identifier in the OpenAPI document.
    const ID: &'static str;
    /// The path, with `{stream}` and `{id}` for its variable segments.
    const PATH: &'static str;
    /// The query parameters, in the order of the OpenAPI document.
    const PARAMETERS: &'static [Parameter];

    /// Takes a request from its path and its checked parameters.
    fn from_parameters(names: PathNames<'_>, parameters: &Parameters) -> Self;

    /// Returns the request's values as checked parameters.
    ///
    /// # Errors
    /// As [`Parameters::parse`].
    fn parameters(&self) -> Result<Parameters, Problem>;

    /// Returns the variable segments of the path.
    fn names(&self) -> PathNames<'_>;

    /// Returns the parameters of the query, not yet percent-encoded.
    fn pairs(&self) -> Vec<(String, String)>;

    /// Checks a request that was made in this process, as if it had been sent.
    ///
    /// # Errors
    /// As [`Parameters::parse`].
    fn checked(&self) -> Result<Self, Problem> {
        Ok(Self::from_parameters(self.names(), &self.parameters()?))
    }

    /// Returns the operation's path of another request, such as `/v1/streams/{stream}/records`.
    fn declared_path(&self) -> &'static str {
        Self::PATH
    }

    /// Returns the operation's identifier.
    fn id(&self) -> &'static str {
        Self::ID
    }

    /// Returns the percent-encoded path. Keys are encoded so that no segment can be `.` or `..`.
    fn path(&self) -> String {
        let PathNames { stream, key } = self.names();
        Self::PATH.replace("{stream}", &encode_key(stream)).replace("{id}", &encode_key(key))
    }
}

/// Declares the requests of a reading operation: their type, and behind each value the parameters
/// that it has in a query. In parentheses are the variable segments of the path.
macro_rules! read_operation {
    (
        $(#[$about:meta])*
        $request:ident($($segment:ident),*) is $id:literal at $path:literal {
            $($(#[$said:meta])* $value:ident: $kind:ty = $($parameter:expr),+;)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $request {
            $(
                #[doc = concat!("The ", stringify!($segment), " in the path.")]
                pub $segment: String,
            )*
            $($(#[$said])* pub $value: $kind,)+
            /// Numbers that were lowered to their maximum.
            pub clamped: Vec<$crate::records::request::parameters::ClampedNumber>,
        }

        impl $crate::records::request::ReadOperation for $request {
            const ID: &'static str = $id;
            const PATH: &'static str = $path;
            const PARAMETERS: &'static [Parameter] = &[$($($parameter),+),+];

            fn from_parameters(names: PathNames<'_>, parameters: &Parameters) -> Self {
                let _ = names;
                Self {
                    $($segment: names.$segment.to_owned(),)*
                    $($value: RequestValue::take(parameters, &[$($parameter),+]),)+
                    clamped: parameters.clamped.clone(),
                }
            }

            fn parameters(&self) -> Result<Parameters, Problem> {
                let mut parameters = Parameters::default();
                $(self.$value.put(&mut parameters, &[$($parameter),+])?;)+
                Ok(parameters)
            }

            #[allow(clippy::needless_update, reason = "a path may have all segments")]
            fn names(&self) -> PathNames<'_> {
                PathNames { $($segment: &self.$segment,)* ..PathNames::default() }
            }

            fn pairs(&self) -> Vec<(String, String)> {
                let mut query = Vec::new();
                $(self.$value.write(&mut query, &[$($parameter),+]);)+
                query
            }
        }
    };
}

pub(super) use read_operation;
