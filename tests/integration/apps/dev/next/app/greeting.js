'use client'
import { useState } from 'react'

export default function Greeting() {
  const [count, setCount] = useState(0)
  return <h1 id="greeting" onClick={() => setCount(count + 1)}>{`first words ${count}`}</h1>
}
