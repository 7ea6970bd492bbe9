// While a control is moved, ask for the plan again; without this script the button does the same.
const form = document.getElementById("wishes");
const plan = document.getElementById("plan");
let waiting = 0;
let asked = null;

async function ask() {
  const query = new URLSearchParams(new FormData(form));
  asked?.abort();
  asked = new AbortController();
  plan.classList.add("busy");
  try {
    const answer = await fetch(`/what-if/plan?${query}`, { signal: asked.signal });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    plan.replaceChildren(...(page.querySelector("main") ?? page.body).childNodes);
    history.replaceState(null, "", `/what-if?${query}`);
    document.getElementById("said").textContent = plan.querySelector("p").textContent;
    plan.classList.remove("busy");
  } catch (error) {
    if (error.name === "AbortError") return; // another wish has been asked for
    plan.textContent = "The page does not answer: is `mfcp ui` still running?";
    plan.classList.remove("busy");
  }
}

form.addEventListener("input", (event) => {
  const told = form.querySelector(`output[for="${event.target.id}"]`);
  if (told) told.textContent = Number(event.target.value).toFixed(3);
  clearTimeout(waiting);
  waiting = setTimeout(ask, event.target.type === "range" ? 60 : 150);
});
