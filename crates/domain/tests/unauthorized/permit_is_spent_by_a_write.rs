use stile_domain::permit::{Edit, Permit};

fn remove(_: Permit<Edit>) {}

fn twice(permit: Permit<Edit>) {
    remove(permit);
    remove(permit);
}

fn main() {}
