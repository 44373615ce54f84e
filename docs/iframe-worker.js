// Search runs in a worker, which browsers do not start for pages that are opened from a folder. There a hidden
// frame takes its place. (The theme would load a script for this from another server.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inner.importScripts = (...all) =>
        all.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve());
      this.ready = this.load(address);
    }

    load(address) {
      return new Promise((loaded) => {
        const script = this.inner.document.createElement("script");
        script.src = new URL(address, location.href);
        script.onload = loaded;
        this.inner.document.head.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };
}
