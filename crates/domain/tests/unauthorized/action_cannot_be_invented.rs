use stile_domain::permit::Action;
use stile_domain::scope::Verb;

enum Everything {}

impl Action for Everything {
    const VERB: Verb = Verb::Read;
}

fn main() {}
