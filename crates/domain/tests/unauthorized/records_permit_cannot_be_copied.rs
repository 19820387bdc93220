use stile_domain::records::authority::RecordsPermit;

fn copy(permit: &RecordsPermit) -> RecordsPermit {
    permit.clone()
}

fn main() {}
