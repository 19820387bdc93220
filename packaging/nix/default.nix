# Builds Stile from this checkout: `nix-build packaging/nix`. Nobody has tried it with Nix yet.
{ pkgs ? import <nixpkgs> { } }:
pkgs.rustPlatform.buildRustPackage {
  pname = "stile";
  version = (builtins.fromTOML (builtins.readFile ../../Cargo.toml)).workspace.package.version;
  src = pkgs.lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  cargoBuildFlags = [ "--package" "stile-server" "--bin" "stile" ];
  # The tests want a home, loopback and some minutes; `cargo test --workspace` runs them.
  doCheck = false;
  nativeBuildInputs = [ pkgs.installShellFiles ];
  postInstall = ''
    $out/bin/stile man man && installManPage man/*.1
    installShellCompletion --cmd stile \
      --bash <($out/bin/stile completions bash) \
      --fish <($out/bin/stile completions fish) \
      --zsh <($out/bin/stile completions zsh)
  '';
  meta = {
    description = "Lets AI agents into a folder of yours, one bounded and authorized step at a time";
    license = with pkgs.lib.licenses; [ asl20 mit ];
    mainProgram = "stile";
  };
}
