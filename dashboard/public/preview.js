// Renders a message in a frame. The frame's Content-Security-Policy gives it an opaque origin, allows no network except images,
// and no script except this one, so that the content of a message is rendered but never executed.
addEventListener('message', (event) => {
  if (event.source !== parent || typeof event.data?.html !== 'string') return;
  const shown = new DOMParser().parseFromString(event.data.html, 'text/html');
  // Remove elements that could navigate the frame or run scripts.
  for (const element of shown.querySelectorAll('meta[http-equiv], base, script')) element.remove();
  document.documentElement.replaceChildren(...document.adoptNode(shown.documentElement).childNodes);
  document.documentElement.style.colorScheme = event.data.dark ? 'dark' : 'light';
  // Disable links.
  document.addEventListener('click', (click) => click.preventDefault(), { capture: true });
});
parent.postMessage('ready', '*');
