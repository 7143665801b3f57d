import { add, list } from './actions'
import Greeting from './greeting'

export const dynamic = 'force-dynamic'

export default async function Page() {
  return (
    <main>
      <Greeting />
      <form action={add}>
        <input name="item" id="item" />
        <button id="add">add</button>
      </form>
      <ul id="list">{(await list()).map((item) => <li key={item}>{item}</li>)}</ul>
    </main>
  )
}
