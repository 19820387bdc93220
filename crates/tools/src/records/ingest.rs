//! Stand-in.
use super::RecordServices;
use stile_domain::permit::Principal;
use stile_domain::records::{instant::Instant, problem::Problem};
impl RecordServices {
    /// Stand-in.
    pub fn ingest(
        &self,
        _: &Principal,
        _: Instant,
        _: &str,
        _: &[(String, String)],
        _: &mut dyn std::io::BufRead,
    ) -> Result<serde_json::Value, Problem> {
        Err(Problem::NotFound)
    }
}
