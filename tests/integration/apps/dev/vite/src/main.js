import './style.css'
import { words } from './words.js'

const show = (text) => {
  document.getElementById('words').textContent = text
}

show(words)
import.meta.hot?.accept('./words.js', (changed) => show(changed.words))
