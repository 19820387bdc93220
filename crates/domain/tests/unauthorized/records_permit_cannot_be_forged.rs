use stile_domain::records::authority::{OwnerPermit, RecordsPermit};

fn main() {
    let _ = RecordsPermit { client: None };
    let _ = OwnerPermit { _made_here: () };
}
