use stile_domain::path::SpacePath;

fn main() {
    let _ = SpacePath("/../etc/passwd".to_owned());
}
