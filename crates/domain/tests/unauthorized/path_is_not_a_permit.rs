use stile_domain::path::SpacePath;
use stile_domain::permit::{Permit, Read};

fn read(_: Permit<Read>) {}

fn main() {
    read(SpacePath::root());
}
