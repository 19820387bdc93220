// Asks the browser for a passkey and sends its answer with the form of the page. Everything else on
// these pages works without a script.
"use strict";
(() => {
  const encode = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer)))
      .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const decode = (text) =>
    Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));

  const register = async ({ challenge, domain, owner, ownerName, algorithms, known }) => {
    const { response } = await navigator.credentials.create({ publicKey: {
      challenge: decode(challenge),
      rp: { id: domain, name: "Stile" },
      user: { id: decode(owner), name: ownerName, displayName: ownerName },
      pubKeyCredParams: algorithms.split(" ").map((alg) => ({ type: "public-key", alg: Number(alg) })),
      excludeCredentials: known.split(" ").filter(Boolean)
        .map((id) => ({ type: "public-key", id: decode(id) })),
      authenticatorSelection: { residentKey: "required", requireResidentKey: true,
        userVerification: "required" },
      attestation: "none",
    } });
    return { client_data: response.clientDataJSON,
      authenticator_data: response.getAuthenticatorData() };
  };

  const signIn = async ({ challenge, domain }) => {
    const { rawId, response } = await navigator.credentials.get({ publicKey: {
      challenge: decode(challenge), rpId: domain, userVerification: "required" } });
    return { credential: rawId, client_data: response.clientDataJSON,
      authenticator_data: response.authenticatorData, signature: response.signature,
      user_handle: response.userHandle ?? new ArrayBuffer(0) };
  };

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    if (!window.PublicKeyCredential) continue;
    form.hidden = false;
    const failure = form.querySelector("[role=alert]");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      failure.textContent = "";
      try {
        const ask = form.dataset.passkey === "register" ? register : signIn;
        for (const [name, value] of Object.entries(await ask(form.dataset))) {
          form.elements.namedItem(name).value = encode(value);
        }
      } catch (error) {
        failure.textContent = error.name === "InvalidStateError"
          ? "This device has a passkey for this server already."
          : "The device gave no passkey. Try again, or use another way.";
        return;
      }
      form.submit();
    });
  }
})();
