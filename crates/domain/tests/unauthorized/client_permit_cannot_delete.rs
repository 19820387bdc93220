use stile_domain::records::authority::{OwnerPermit, RecordsPermit};

fn delete(_: OwnerPermit) {}

fn through(permit: RecordsPermit) {
    delete(permit);
}

fn main() {}
