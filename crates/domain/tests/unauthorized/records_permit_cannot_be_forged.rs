use stile_domain::records::authority::{OwnerPermit, RecordsPermit};

fn main() {
    let _ = RecordsPermit { client: None };
    let _ = OwnerPermit { is_import: false };
}
