// Asks for a token when the service wants one. It is kept in this tab only (see api.js).

export const tokenFrom = (app, why) =>
  new Promise((resolve) => {
    const dialog = app.byId("token");
    const input = app.byId("token-text");
    app.byId("token-why").textContent = why || "This service wants a token with the scope “read”.";
    input.value = "";
    const closed = () => {
      dialog.removeEventListener("close", closed);
      const token = dialog.returnValue === "use" ? input.value.trim() : "";
      input.value = "";
      resolve(token || null);
    };
    dialog.addEventListener("close", closed);
    dialog.returnValue = "";
    dialog.showModal();
  });
