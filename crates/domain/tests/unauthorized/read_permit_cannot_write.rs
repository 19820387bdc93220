use stile_domain::permit::{Edit, Permit, Read};

fn remove(_: Permit<Edit>) {}

fn through(permit: Permit<Read>) {
    remove(permit);
}

fn main() {}
