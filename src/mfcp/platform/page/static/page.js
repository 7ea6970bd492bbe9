// While a control is moved, ask for the plan again; without this script the button does the same.
const form = document.getElementById("wishes");
const plan = document.getElementById("plan");
let asking = false; // one question at a time,
let again = false; // and one more when its answer is there, if a control was moved meanwhile

async function ask() {
  again = asking;
  if (asking) return;
  asking = true;
  plan.classList.add("busy");
  const query = new URLSearchParams(new FormData(form));
  try {
    const answer = await fetch(`/what-if/plan?${query}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    plan.replaceChildren(...(page.querySelector("main") ?? page.body).childNodes);
    document.getElementById("said").textContent = plan.querySelector("p").textContent;
    history.replaceState(null, "", `/what-if?${query}`);
  } catch {
    plan.textContent = "The page does not answer: is `mfcp ui` still running?";
  }
  asking = false;
  plan.classList.remove("busy");
  if (again) ask();
}

form.addEventListener("input", (event) => {
  const told = form.querySelector(`output[for="${event.target.id}"]`);
  if (told) told.textContent = Number(event.target.value).toFixed(3);
  ask();
});
