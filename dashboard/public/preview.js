// The frame that a message is shown in. Its page is answered with a policy of its own: no origin, no network but for
// pictures, and no script but this one, so that what a message holds is drawn and never run.
addEventListener('message', (event) => {
  if (event.source !== parent || typeof event.data?.html !== 'string') return;
  const shown = new DOMParser().parseFromString(event.data.html, 'text/html');
  // Neither may lead the frame elsewhere.
  for (const element of shown.querySelectorAll('meta[http-equiv], base, script')) element.remove();
  document.documentElement.replaceChildren(...document.adoptNode(shown.documentElement).childNodes);
  document.documentElement.style.colorScheme = event.data.dark ? 'dark' : 'light';
  // Links lead nowhere here.
  document.addEventListener('click', (click) => click.preventDefault(), { capture: true });
});
parent.postMessage('ready', '*');
