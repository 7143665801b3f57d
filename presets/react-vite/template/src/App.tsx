import './App.css';

const steps = [
  { title: 'Describe it', text: 'Say what you want to build, in your own words.' },
  { title: 'Watch it appear', text: 'Every change shows up here, without a reload.' },
  { title: 'Keep it', text: 'Plain files in a git repository, yours from the first minute.' },
];

export function App() {
  return (
    <main className="welcome">
      <p className="welcome-status">
        <span className="welcome-dot" aria-hidden="true" />
        Running
      </p>
      <h1>Your app starts here</h1>
      <p className="welcome-lead">
        This page is the whole app so far. Send a prompt, or edit <code>src/App.tsx</code>.
      </p>
      <ol className="welcome-steps">
        {steps.map((step) => (
          <li key={step.title}>
            <h2>{step.title}</h2>
            <p>{step.text}</p>
          </li>
        ))}
      </ol>
    </main>
  );
}
