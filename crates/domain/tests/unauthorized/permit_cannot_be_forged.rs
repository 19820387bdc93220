use stile_domain::path::SpacePath;
use stile_domain::permit::{Edit, Permit};

fn main() {
    let _ = Permit::<Edit> { path: SpacePath::root() };
}
