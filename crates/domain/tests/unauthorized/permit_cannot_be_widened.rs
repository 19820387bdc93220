use stile_domain::permit::{Edit, List, Permit};

fn widen(permit: Permit<List>) -> Permit<Edit> {
    permit.into()
}

fn main() {}
